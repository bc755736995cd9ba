"""Evidence pools (Wadden et al. 2022): made from systems' rankings, judged, and examined."""
