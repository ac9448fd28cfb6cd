package diskspace

import (
	"errors"
	"testing"
)

func TestMeasure_OfADirectory_IsPositive(t *testing.T) {
	free, size, err := Measure(t.TempDir())
	if errors.Is(err, ErrUnknown) {
		t.Skip(err)
	}
	if err != nil || free <= 0 || size < free {
		t.Errorf("%d of %d bytes are free, %v", free, size, err)
	}
	if _, _, err := Measure("no/such/directory"); err == nil {
		t.Error("a directory that does not exist has a file system")
	}
}
