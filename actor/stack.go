package actor

import (
	"runtime"
	"strings"
)

const thisPackage = "github.com/cleavekv/cleave/actor."

// callers returns the names of the functions on the stack, newest first, from
// the caller of its caller on.
func callers() (names []string) {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(3, pcs)
	for n == len(pcs) { // there may be more
		pcs = make([]uintptr, 2*len(pcs))
		n = runtime.Callers(3, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for more := n > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		names = append(names, f.Function)
	}
	return names
}

// guards reports whether name is one of the functions of this package that call
// what a user handed in: guard, guardDo, guardListener.
func guards(name string) bool {
	return strings.HasPrefix(name, thisPackage) && strings.Contains(name, ".guard")
}

// insideHandler reports whether a handler, of some actor, is among the callers.
// Which actor it is cannot be told, so Stop refuses them all.
func insideHandler() bool {
	for _, name := range callers() {
		if guards(name) {
			return true
		}
	}
	return false
}

// exiting reports whether the deferred function of a guard, which calls it,
// runs because the guarded function ends its goroutine. That there is nothing
// to recover is not enough of a sign: a function that panics while it ends its
// goroutine has a panic to recover, and ends its goroutine all the same.
func exiting() bool {
	for _, name := range callers()[1:] { // without the deferred function
		if name == "runtime.Goexit" {
			return true
		}
		if guards(name) {
			return false // what is older does not concern this guard
		}
	}
	return false
}
