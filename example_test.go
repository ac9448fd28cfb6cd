package cleave_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/cleavekv/cleave"
)

func Example() {
	dir, err := os.MkdirTemp("", "cleave")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	db, err := cleave.Open(dir, cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ks := db.Default()
	if err := ks.Set(ctx, []byte("greeting"), []byte("hello")); err != nil {
		log.Fatal(err)
	}
	value, err := ks.Get(ctx, []byte("greeting"))
	fmt.Printf("%s %v\n", value, err)
	_, err = ks.Get(ctx, []byte("nothing"))
	fmt.Println(errors.Is(err, cleave.ErrNotFound))
	// Output:
	// hello <nil>
	// true
}

// A transfer reads and writes two accounts. If another transfer gets in its
// way, it runs again.
func ExampleDB_Update() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks := db.Default()
	_, _ = ks.Add(ctx, []byte("alice"), 100)

	transfer := func(from, to string, amount int64) error {
		return db.Update(ctx, func(tx *cleave.Txn) error {
			balance, err := tx.Get(ks, []byte(from))
			if err != nil {
				return err
			}
			if n, _ := strconv.ParseInt(string(balance), 10, 64); n < amount {
				return fmt.Errorf("%s has only %d", from, n)
			}
			if _, err := tx.Add(ks, []byte(from), -amount); err != nil {
				return err
			}
			_, err = tx.Add(ks, []byte(to), amount)
			return err
		})
	}
	fmt.Println(transfer("alice", "bob", 30))
	fmt.Println(transfer("alice", "bob", 80))
	alice, _ := ks.Get(ctx, []byte("alice"))
	bob, _ := ks.Get(ctx, []byte("bob"))
	fmt.Printf("alice %s, bob %s\n", alice, bob)
	// Output:
	// <nil>
	// alice has only 70
	// alice 70, bob 30
}

// A batch writes to several keyspaces at once. With a request id it may be sent
// again after an error that leaves its outcome open: it takes effect once.
func ExampleDB_Write() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users := db.Default()
	byMail, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "by-mail", Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	register := func(id, mail string) error {
		b := cleave.Batch{Request: db.NewRequestID()}
		b.HSet(users, []byte(id), cleave.Field{Name: []byte("mail"), Value: []byte(mail)})
		b.SetWith(byMail, []byte(mail), []byte(id), cleave.SetOptions{IfAbsent: true})
		err := db.Write(ctx, &b)
		for tries := 1; errors.Is(err, cleave.ErrUnknown) && tries < 3; tries++ {
			err = db.Write(ctx, &b)
		}
		return err
	}
	fmt.Println(register("user7", "ann@example.org"))
	fmt.Println(register("user8", "ann@example.org"))
	_, err = users.HGet(ctx, []byte("user8"), []byte("mail"))
	fmt.Println(errors.Is(err, cleave.ErrNotFound))
	// Output:
	// <nil>
	// write 2, key "ann@example.org" of keyspace by-mail: cleave: the condition did not hold, nothing was stored
	// true
}

// A keyspace of kind Range keeps its keys in order.
func ExampleKeyspace_Scan() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	events, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "events", Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"2026-03-01", "2026-01-15", "2026-02-10"} {
		_ = events.Set(ctx, []byte(key), []byte("…"))
	}
	page, err := events.ScanPage(ctx, cleave.ScanOptions{Reverse: true, Limit: 2})
	for _, item := range page.Items {
		fmt.Printf("%s\n", item.Key)
	}
	fmt.Println(page.Next != nil, err)
	// Output:
	// 2026-03-01
	// 2026-02-10
	// true <nil>
}

func ExampleKeyspace_SetWith() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	lock := []byte("lock")
	_, err = db.Default().SetWith(ctx, lock, []byte("me"), cleave.SetOptions{IfAbsent: true, TTL: time.Minute})
	fmt.Println(err)
	_, err = db.Default().SetWith(ctx, lock, []byte("you"), cleave.SetOptions{IfAbsent: true, TTL: time.Minute})
	fmt.Println(errors.Is(err, cleave.ErrNotStored))
	// Output:
	// <nil>
	// true
}

// A hash of any size is read in pages.
func ExampleKeyspace_HScanPage() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	cart := []byte("{user7}:cart")
	for _, item := range []string{"pear", "apple", "fig"} {
		_, _ = db.Default().HAdd(ctx, cart, []byte(item), 2)
	}
	for after := []byte(nil); ; {
		page, next, err := db.Default().HScanPage(ctx, cart, after, 2)
		if err != nil {
			log.Fatal(err)
		}
		for _, f := range page {
			fmt.Printf("%s %s\n", f.Name, f.Value)
		}
		if after = next; next == nil {
			break
		}
	}
	// Output:
	// apple 2
	// fig 2
	// pear 2
}

// The feed yields what changed, in the order of the commits.
func ExampleDB_Feed() {
	ctx, cancel := context.WithCancel(context.Background())
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	defer cancel()
	from := db.Head()
	ks := db.Default()
	_ = ks.Set(ctx, []byte("a"), []byte("1"))
	_, _ = ks.Delete(ctx, []byte("a"))
	for change, err := range db.Feed(ctx, cleave.FeedOptions{From: from}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, op := range change.Ops {
			fmt.Printf("%s %s %q deleted=%v\n", op.Keyspace, op.Key, op.Item.Value, op.Deleted)
			if op.Deleted {
				cancel()
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	// Output:
	// default a "1" deleted=false
	// default a "" deleted=true
}

// A shard is cut in two, and one half goes to another store while clients go on.
func ExampleDB_Start() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	users, err := db.CreateKeyspace(ctx, cleave.KeyspaceOptions{Name: "users", Kind: cleave.Range})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"ada", "grace", "margaret"} {
		if err := users.Set(ctx, []byte(name), []byte("hello")); err != nil {
			log.Fatal(err)
		}
	}
	split, err := db.Start(ctx, cleave.SplitAtKeys(users, []byte("m")))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := split.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	shards, err := db.Shards(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range shards {
		if s.Keyspace != "users" || s.Rows != 1 {
			continue
		}
		to := cleave.GroupID(1) // on store 0
		if s.Store == 0 {
			to = 4
		}
		change := cleave.Move{Shard: s.ID, To: to}
		price, err := db.Plan(ctx, change)
		if err != nil {
			log.Fatal(err)
		}
		move, err := db.Start(ctx, change)
		if err != nil {
			log.Fatal(err)
		}
		status, err := move.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d row to move, the %s is %s\n", price.Rows, status.Kind, status.State)
	}
	value, err := users.Get(ctx, []byte("margaret"))
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// 1 row to move, the move is done
	// hello <nil>
}

// Keys with the same hash tag are always in one shard.
func ExampleKeyspace_Locate() {
	db, err := cleave.OpenMemory(cleave.Options{Stores: 2, Groups: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ks := db.Default()
	name, cart := ks.Locate([]byte("{ada}:name")), ks.Locate([]byte("{ada}:cart"))
	fmt.Println("slot", name.Slot, name == cart)
	// Output:
	// slot 5938 true
}
