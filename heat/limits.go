package heat

// maxWindows bounds what one shard takes: more windows show nothing that their neighbours do not.
const maxWindows = 8

const (
	// MaxKeyBytes is how much is kept of a key.
	MaxKeyBytes = 256
	// maxTopKeys bounds a table to about half a gigabyte: above it, one wrong option would take all memory there is.
	maxTopKeys = 1 << 20
	// keptNames is how many commands and clients are known of a key. One or two make it hot; the others are noise.
	keptNames = 4
	// maxNameBytes is how much is kept of the name of a command or a client.
	maxNameBytes = 64
)
