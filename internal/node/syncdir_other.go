//go:build !unix

package node

// SyncDir does nothing: the system keeps the order of names by itself.
func SyncDir(string) error { return nil }

func unsyncable(error) bool { return false }
