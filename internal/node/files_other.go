//go:build !unix

package node

// isLocked reports whether a store has locked the file. Where files are opened alone, copying it
// fails with an error.
func isLocked(string) bool { return false }

// SyncDir does nothing: the system keeps the order of names by itself.
func SyncDir(string) error { return nil }

func isUnsyncable(error) bool { return false }
