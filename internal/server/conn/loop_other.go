//go:build !linux

package conn

import "net"

// ServeLoops serves connections of TCP: here each has a goroutine.
func (s *Set) ServeLoops(l *net.TCPListener) error { return s.ServeStreams(l) }
