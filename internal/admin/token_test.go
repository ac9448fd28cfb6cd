package admin

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cleavekv/cleave/internal/api"
)

// own makes a server have a token that it makes itself.
func own(o *Options) { o.Token = "" }

func TestATokenIsMadeOnceAndFoundByTheLocalUser(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", t.TempDir())
	data := t.TempDir()
	o := Options{Listener: listen(t), Data: data}
	defer o.Listener.Close()
	token, left, err := tokenFor(&o)
	if err != nil || left == "" || len(token) < api.MinToken {
		t.Fatalf("%q, %q, %v", token, left, err)
	}
	path := filepath.Join(data, api.TokenFile)
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if found, err := api.FindToken(o.Listener.Addr().String(), data); found != token || err != nil {
		t.Errorf("it is found as %q, %v", found, err)
	}
	if found, err := api.FindToken(o.Listener.Addr().String(), ""); found != token || err != nil {
		t.Errorf("by the address alone it is found as %q, %v", found, err)
	}
	if err := os.WriteFile(left, []byte("of a server that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, _, err := tokenFor(&o); again != token || err != nil {
		t.Errorf("the next time it is %q, %v", again, err)
	}
	if found, err := api.FindToken(o.Listener.Addr().String(), ""); found != token || err != nil {
		t.Errorf("after a crash it is found as %q, %v", found, err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := tokenFor(&o); err == nil {
			t.Error("one that others may read is used")
		}
	}
	for _, bad := range []string{"short", "with spaces in it, many", "ünprintable-enough"} {
		if _, _, err := tokenFor(&Options{Token: bad, Listener: o.Listener}); err == nil {
			t.Errorf("%q is used", bad)
		}
	}
}

func TestATokenThatACrashHasLeftEmptyIsMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), api.TokenFile)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := keptToken(path)
	if err != nil || len(token) < api.MinToken {
		t.Fatalf("%q, %v", token, err)
	}
	if again, err := keptToken(path); again != token || err != nil {
		t.Errorf("the next time it is %q, %v", again, err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); len(files) != 1 || err != nil {
		t.Errorf("there are %d files, %v", len(files), err)
	}
}

func TestAServerInMemoryLeavesItsTokenWithTheUser(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("LocalAppData", t.TempDir())
	l := small(t, own)
	token, err := api.FindToken(l.addr, "")
	if err != nil || token == "" {
		t.Fatalf("%q, %v", token, err)
	}
	l.client.Token = token
	if _, err := l.client.Act(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); err != nil {
		t.Error(err)
	}
	path := l.admin.left
	if err := l.admin.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left behind: %v", err)
	}
}

// Without a place for the token clients are served, and nothing can be changed.
func TestAServerWithoutAPlaceForTheTokenCannotBeChanged(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the place is found in another way")
	}
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	var said error
	l := small(t, own, func(o *Options) { o.Complain = func(err error) { said = err } })
	if said == nil {
		t.Error("nobody was told")
	}
	if _, err := l.client.Status(ctx); err != nil {
		t.Error(err)
	}
	if _, err := l.client.Act(ctx, api.PathCreateKeyspace, api.CreateKeyspace{Name: "a"}, false); !errors.Is(err, &api.Error{Code: api.CodeUnauthorized}) {
		t.Errorf("it says %v", err)
	}
}
