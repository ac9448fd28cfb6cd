package config

import (
	"slices"
	"strings"
)

// envPrefix is what the names of our variables begin with.
const envPrefix = "CLEAVE_"

// Misspelt returns the variables of an environment, as os.Environ has it, that nobody
// reads and that are like one that is read. Others are those that are read besides
// settings. A variable that is like none is somebody else's, and is let be.
func Misspelt(environ []string, others ...string) []Mistake {
	var known []string // without what all begin with: it would make any two alike
	for i := range settings {
		known = append(known, strings.TrimPrefix(settings[i].Env(), envPrefix))
	}
	for _, name := range others {
		known = append(known, strings.TrimPrefix(name, envPrefix))
	}
	var found []Mistake
	for _, v := range environ {
		full, _, _ := strings.Cut(v, "=")
		name, ours := strings.CutPrefix(full, envPrefix)
		if !ours || slices.Contains(known, name) {
			continue
		}
		if near := Nearest(name, known); near != "" {
			found = append(found, Mistake{full, "nobody reads this variable: did you mean " + envPrefix + near + "?"})
		}
	}
	return found
}
