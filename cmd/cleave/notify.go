package main

import (
	"fmt"
	"net"
	"os"
)

// notify tells the service manager how the server stands, as sd_notify does: a datagram
// to the socket that it names in the environment. Without one there is nobody to tell.
func notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	// A name that begins with @ is of the abstract kind, which package net writes so too.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell %s of NOTIFY_SOCKET: %w", state, err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell %s of NOTIFY_SOCKET: %w", state, err)
	}
	return nil
}
