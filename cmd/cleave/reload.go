package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cleavekv/cleave/internal/config"
	"github.com/cleavekv/cleave/internal/serve"
)

// reload reads the configuration again and makes the server take what can change. What
// clients have set with CONFIG SET stays, unless the configuration says something else
// than it did before. Certificates need nothing: they are read when they change.
func reload(errOut io.Writer, s *serve.Server, from config.Sources, old *config.Config) *config.Config {
	c, err := config.Load(from)
	if err != nil {
		fmt.Fprintf(errOut, "cleave: SIGHUP: nothing is changed:\n%v\n", err)
		return old
	}
	live, restart := old.Changes(c)
	if len(live) > 0 {
		if err := s.Configure(live); err != nil {
			fmt.Fprintf(errOut, "cleave: SIGHUP: nothing is changed: %v\n", err)
			return old
		}
	}
	said := "nothing has changed"
	if len(live) > 0 {
		said = "now in effect: " + strings.Join(slices.Sorted(maps.Keys(live)), ", ")
	}
	if len(restart) > 0 {
		said += "; waiting for a restart: " + strings.Join(restart, ", ")
	}
	fmt.Fprintf(errOut, "cleave: SIGHUP: %s\n", said)
	return c
}
