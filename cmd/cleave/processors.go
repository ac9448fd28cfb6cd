package main

import (
	"os"
	"runtime"
)

// oneMoreProcessor lets one goroutine more run at a time than there are processors. The loop
// that serves clients keeps its own while it waits for them, and Go takes it away only after
// a while: those who read rows that are not in memory would leave a processor idle until
// then. Who sets GOMAXPROCS decides for himself.
func oneMoreProcessor() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
