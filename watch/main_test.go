package watch

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(killDir) != "" {
		killedChild() // does not return
	}
	// A store takes long to open and is worth more the longer it is used: fewer
	// runs of more steps, unless the caller says otherwise.
	for name, value := range map[string]string{"rapid.checks": "25", "rapid.steps": "60"} {
		if f := flag.Lookup(name); f != nil {
			_ = f.Value.Set(value)
		}
	}
	os.Exit(m.Run())
}
