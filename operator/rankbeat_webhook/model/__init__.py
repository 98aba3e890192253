"""Values that the decision is made from, each parsed once from the API's JSON."""
