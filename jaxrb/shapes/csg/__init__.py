"""Solids that are combined or given by a function, and the search for their extreme points.

A combination is brought to a normal form (`normal_form`), of which points are sought (`extremum`)
by ascent from seeds on its surfaces, edges and corners.
"""
