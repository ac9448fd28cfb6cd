//go:build amd64 || arm64

package rowcache

// prefetch asks for the cache line at p and waits for nothing. It neither
// reads nor writes as far as the program can tell.
//
//go:noescape
func prefetch(p *byte)

// prefetchRow asks for the lines of a row of ordinary length at p. What lies
// behind the block's end does no harm: a prefetch never faults.
//
//go:noescape
func prefetchRow(p *byte)
