package heat

import (
	"encoding/binary"
	"time"

	"github.com/cleavekv/cleave/hash"
)

// Access is one operation on one key.
type Access struct {
	// Key is the key, or its position: the order of ranges is that of these bytes. It is not kept: the caller may
	// change it after the call.
	Key []byte
	// Slot is the bucket of the key, if keys have one.
	Slot uint16
	// Write reports whether the operation may change the key, Conflict whether it was refused because of another one.
	Write, Conflict bool
	// BytesIn and BytesOut are those of the request and of the reply.
	BytesIn, BytesOut int
	// Service is how long it took. 0 is not known.
	Service time.Duration
	// Busy is its share of Service if it was executed together with others: what ByService counts. 0 is all of it.
	Busy time.Duration
	// Command, Client and Address are names that a report of a hot key has: what was asked, what asked, and from where.
	// A program with many connections is known by a Client that they share, and a single one by its Address. Empty is
	// not known.
	Command, Client, Address string
}

func (a *Access) bytes() float64 { return float64(max(a.BytesIn, 0)) + float64(max(a.BytesOut, 0)) }

// Measure is what keys are compared by.
type Measure uint8

const (
	// ByOps counts each operation as 1.
	ByOps Measure = iota
	// ByBytes counts the bytes of request and reply.
	ByBytes
	// ByService counts nanoseconds of service time: Access.Busy, or else Access.Service.
	ByService
	// ByConflicts counts the operations that were refused because of others.
	ByConflicts
	measures
)

// String returns the name of the measure.
func (m Measure) String() string {
	return [...]string{"ops", "bytes", "service", "conflicts", "unknown"}[min(m, measures)]
}

func (m Measure) of(a *Access) float64 {
	switch m {
	case ByBytes:
		return a.bytes()
	case ByService:
		if a.Busy > 0 {
			return float64(a.Busy)
		}
		return float64(max(a.Service, 0))
	case ByConflicts:
		if !a.Conflict {
			return 0
		}
	}
	return 1
}

// keptKey returns the bytes by which a key is known. Of one that is longer than [MaxKeyBytes] they are its beginning
// and a hash of all of it, so that two of them still differ, and are the same in every process.
func keptKey(key []byte) []byte {
	if len(key) <= MaxKeyBytes {
		return key
	}
	kept := append(make([]byte, 0, MaxKeyBytes), key[:MaxKeyBytes-8]...)
	return binary.BigEndian.AppendUint64(kept, hash.XXH3(key).Uint64())
}
