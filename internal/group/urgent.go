package group

import "github.com/cleavekv/cleave/internal/command"

// Urgent is a command that may use what is kept for it when the disk is full, if it
// says so: one that ends what is under way, or gives room back. There are no more of
// them than of commands that found room before, and of steps of jobs, which are few and
// small: what a job carries is not urgent.
type Urgent interface{ Urgent() bool }

func urgent(c command.Command) bool {
	u, ok := c.(Urgent)
	return ok && u.Urgent()
}
