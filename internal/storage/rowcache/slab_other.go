//go:build !linux

package rowcache

func adviseLargePages([]byte) {}

// releasePages reports that it cannot: the block stays.
func releasePages([]byte) bool { return false }
