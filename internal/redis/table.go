package redis

import (
	"fmt"
	"strings"
)

// groups are the groups of commands in the order in which they are best read.
var groups = []struct{ name, title string }{
	{"connection", "Connection"}, {"string", "Strings"}, {"bitmap", "Bits"}, {"hash", "Hashes"}, {"generic", "Keys"},
	{"transactions", "Transactions"}, {"pubsub", "Messages"}, {"server", "Server"}, {"cluster", "Cluster"}, {"scripting", "Functions"},
	{Module, "Cleave's own"},
}

// Table is all commands as Markdown, for the documentation.
func Table() string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "### %s\n\n| command | what it does | not as in Redis |\n|---|---|---|\n", g.title)
		for _, s := range all {
			if s.Doc.Group == g.name && len(s.Subs) == 0 {
				name := strings.ToUpper(strings.ReplaceAll(s.Name, "|", " "))
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, s.Doc.Summary, s.Doc.Differs)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
