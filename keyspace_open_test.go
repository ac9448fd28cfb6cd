package cleave_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cleavekv/cleave"
)

func TestOpenKeyspaceMakesItOnceAndRefusesOtherOptions(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, want := context.Background(), cleave.KeyspaceOptions{Name: "x", Kind: cleave.Range}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if k, err := db.OpenKeyspace(ctx, want); err != nil || k.Options() != want {
				t.Errorf("got %v, %v", k, err)
			}
		})
	}
	wg.Wait()
	if _, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "x"}); !errors.Is(err, cleave.ErrKeyspaceExists) {
		t.Errorf("with other options: %v, want ErrKeyspaceExists", err)
	}
	if _, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "no spaces"}); !errors.Is(err, cleave.ErrOptions) {
		t.Errorf("with a bad name: %v, want ErrOptions", err)
	}
}

func TestOpenKeyspaceComparesWhatLayoutsMean(t *testing.T) {
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	open := func(layout string) error {
		_, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "x", Kind: cleave.Range, Layout: layout})
		return err
	}
	for _, same := range []string{"(device, day(ts)) | ts", "device,day(ts)|ts", "( device , day( ts ) )|ts:time"} {
		if err := open(same); err != nil {
			t.Errorf("%q: %v", same, err)
		}
	}
	for _, other := range []string{"", "device | day(ts), ts", "(device:string, day(ts)) | ts", "no layout("} {
		if err := open(other); !errors.Is(err, cleave.ErrKeyspaceExists) {
			t.Errorf("%q: %v, want ErrKeyspaceExists", other, err)
		}
	}
}
