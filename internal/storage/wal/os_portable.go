//go:build !linux

package wal

// osFile is the portable form: each durable write is a write and a sync.
type osFile struct{ plainFile }

func openFile(path string, flags int) (File, error) {
	f, err := openPlain(path, flags)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) WriteDurable(p []byte, off int64) error {
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.Sync()
}

// DropCache does nothing: the system offers no way to it.
func (f osFile) DropCache() error { return nil }
