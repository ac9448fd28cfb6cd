//go:build !linux

package server

import "net"

// serveLoops serves connections of TCP: here each has a goroutine.
func (s *Server) serveLoops(l *net.TCPListener) error { return s.serveStreams(l) }
