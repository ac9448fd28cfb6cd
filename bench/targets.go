package main

import "github.com/cleavekv/cleave/bench/internal/duel"

// targets is every promise that a run is judged by. Ratios are against the
// best peer unless peers are named.
var targets []duel.Target
