//go:build plant

package plant

import "os"

var planted = os.Getenv("CLEAVE_PLANT")

// Bug tells whether the named bug is planted.
func Bug(name string) bool { return name == planted }
