//go:build plant

package plant

import "os"

var planted = os.Getenv("CLEAVE_PLANT")

// Bug reports whether the named bug is planted.
func Bug(name string) bool { return name == planted }
