package cleave

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(killDir) != "" {
		killedChild() // does not return
	}
	if os.Getenv(killIndexDir) != "" {
		killedIndexChild() // nor does this
	}
	// A store takes long to open and is worth more the longer it is used: fewer
	// runs of more steps, unless the caller says otherwise.
	set := map[string]string{"rapid.checks": "15", "rapid.steps": "100"}
	for name, value := range set {
		if f := flag.Lookup(name); f != nil {
			_ = f.Value.Set(value)
		}
	}
	os.Exit(m.Run())
}
