package browser

import "testing"

// verdict is what a test was told.
type verdict struct{ skipped, failed bool }

func (v *verdict) Helper()      {}
func (v *verdict) Skip(...any)  { v.skipped = true }
func (v *verdict) Fatal(...any) { v.failed = true; panic(v) }

// A missing browser is never overlooked where one is wanted.
func TestFind_WithoutABrowser_SkipsOrFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for require, want := range map[string]verdict{"": {skipped: true}, "printer": {skipped: true}, "browser": {failed: true}, "redis,browser": {failed: true}} {
		t.Setenv(EnvRequire, require)
		var v verdict
		func() {
			defer func() { _ = recover() }()
			Find(&v)
		}()
		if v != want {
			t.Errorf("%s=%q: %+v", EnvRequire, require, v)
		}
	}
}
