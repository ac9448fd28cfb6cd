// Package plant switches one mutant on, by its name in the environment variable CLEAVE_PLANT.
//
// Production code does not import it: only the copies of it do into which the patches of the mutants
// are applied. See package mutants.
package plant

import "os"

var planted = os.Getenv("CLEAVE_PLANT")

// Bug reports whether the named mutant is switched on.
func Bug(name string) bool { return name == planted }
