package wal

// FS is the directory of a log, as the log needs it. Errors for want of space
// match [ErrDiskFull] or syscall.ENOSPC, and those for want of files that may be open
// [ErrNoFiles] or syscall.EMFILE.
type FS interface {
	// Create makes an empty file for reading and writing, or empties it.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	Remove(name string) error
	// Rename gives a file, which is not open, a name that is not in use.
	Rename(from, to string) error
	// List returns the names of all files in the directory.
	List() ([]string, error)
	// SyncDir returns when every Create, Rename and Remove before it is durable.
	SyncDir() error
	// Free returns how many bytes can still be written to new files.
	Free() (int64, error)
}

// File is one segment, as the log needs it. Its methods may be called at the same
// time.
type File interface {
	// ReadAt is that of [io.ReaderAt].
	ReadAt(p []byte, off int64) (int, error)
	// WriteAt hands p to the operating system.
	WriteAt(p []byte, off int64) (int, error)
	// WriteDurable returns when p is on stable storage. The log calls it with whole
	// blocks in page-aligned memory, inside of the file's size.
	WriteDurable(p []byte, off int64) error
	// Sync returns when everything written before is on stable storage.
	Sync() error
	// Forget makes the next reads show what is on stable storage, where the operating system
	// offers that: after a Sync that failed it may show what it never wrote.
	Forget() error
	Size() (int64, error)
	Close() error
}
