//go:build !amd64 && !arm64

package rowcache

// There is no way to ask for a cache line without assembly: the lookups
// are the same, they only wait one after the other.

func prefetch(*byte)    {}
func prefetchRow(*byte) {}
