package serverprocess

import (
	"os/exec"
	"strconv"
	"strings"
)

// Split divides the processors of a machine: the first for a server, the rest for what loads it. If there is no
// rest, they share all.
func Split(machine, server int) (servers, generators []int) {
	for i := range machine {
		if i < server {
			servers = append(servers, i)
		} else {
			generators = append(generators, i)
		}
	}
	if len(generators) == 0 {
		generators = servers
	}
	return servers, generators
}

// Steps are the numbers of processors to compare on a machine: 1, 2, and from there twice as many as long as as many
// are left for what loads the server.
func Steps(machine int) []int {
	steps := []int{1}
	for n := 2; n <= max(2, machine/2) && n <= machine; n *= 2 {
		steps = append(steps, n)
	}
	return steps
}

// CanPin reports whether processes can be kept on some processors.
func CanPin() bool {
	_, err := exec.LookPath("taskset")
	return err == nil
}

// pin returns a command that runs on these processors, or on all if there are none or the system has no taskset.
func pin(cores []int, path string, args ...string) *exec.Cmd {
	if len(cores) == 0 || !CanPin() {
		return exec.Command(path, args...)
	}
	// taskset becomes the program, under the same process id.
	return exec.Command("taskset", append([]string{"-c", List(cores), path}, args...)...)
}

// List is a list of processors as taskset takes it.
func List(cores []int) string {
	words := make([]string, len(cores))
	for i, c := range cores {
		words[i] = strconv.Itoa(c)
	}
	return strings.Join(words, ",")
}
