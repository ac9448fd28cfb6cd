package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Example is a file in which every setting stands with its default.
func Example() string {
	var b strings.Builder
	b.WriteString(`# Settings of cleave serve, each with its default. Start it with
#
#     cleave serve --config cleave.toml
#
# A flag of the same name counts more, and so does a variable of the environment:
# CLEAVE_TLS_PORT for tls-port. "cleave config check FILE" finds mistakes.
# SIGHUP makes a server take what is marked (live); the rest waits for a restart.
`)
	for i := range settings {
		s := &settings[i]
		b.WriteString("\n")
		help := strings.ReplaceAll(s.Help, "\n", "\n# ")
		if s.Live {
			help += " (live)"
		}
		value := s.Default
		if s.Kind != Number && s.Kind != Bytes {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&b, "# %s%s.\n%s = %s\n", strings.ToUpper(help[:1]), help[1:], s.Name, value)
	}
	return b.String()
}
