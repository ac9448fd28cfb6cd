package cleave_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/cleavekv/cleave"
	"github.com/cleavekv/cleave/key"
)

// Rows are found by what they hold: an index on two fields commits with them, another
// one refuses a second row with the same field.
func ExampleDB_OpenIndex() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	people := db.Default()
	byAge, err := db.OpenIndex(ctx, cleave.IndexOptions{Name: "age", Keyspace: people, Columns: "country, age:int", Stored: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = db.OpenIndex(ctx, cleave.IndexOptions{Name: "mail", Keyspace: people, Columns: "mail", Unique: true})
	if err != nil {
		log.Fatal(err)
	}
	add := func(id, country, age, mail string) error {
		_, err := people.HSet(ctx, []byte(id), cleave.Field{Name: []byte("country"), Value: []byte(country)},
			cleave.Field{Name: []byte("age"), Value: []byte(age)}, cleave.Field{Name: []byte("mail"), Value: []byte(mail)})
		return err
	}
	for _, p := range [][4]string{{"1", "nz", "42", "ann@example.com"}, {"2", "at", "7", "ben@example.com"}, {"3", "nz", "9", "eve@example.com"}} {
		if err := add(p[0], p[1], p[2], p[3]); err != nil {
			log.Fatal(err)
		}
	}
	if err := byAge.Wait(ctx); err != nil { // rows that were there before the index have their entries too
		log.Fatal(err)
	}
	page, err := byAge.ScanPage(ctx, cleave.IndexScanOptions{Prefix: key.Tuple{"nz"}})
	for _, item := range page.Items {
		fmt.Printf("%s %v %s\n", item.Key, item.Entry, item.Fields[0].Value)
	}
	fmt.Println(err, errors.Is(add("4", "ch", "1", "ann@example.com"), cleave.ErrUnique))
	// Output:
	// 3 ("nz", 9) eve@example.com
	// 1 ("nz", 42) ann@example.com
	// <nil> true
}

// A projection follows its rows: it makes any number of entries of each, and a reader of
// it may wait until it has caught up.
func ExampleIndex_WaitFresh() {
	ctx := context.Background()
	db, err := cleave.OpenMemory(cleave.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	notes := db.Default()
	words, err := db.OpenIndex(ctx, cleave.IndexOptions{
		Name: "words", Keyspace: notes, Mode: cleave.Asynchronous, Function: "words", Version: "1",
		Extract: func(row cleave.IndexRow) (entries []cleave.IndexEntry, _ error) {
			for i, word := range strings.Fields(string(row.Value)) {
				entries = append(entries, cleave.IndexEntry{Entry: key.Tuple{strings.ToLower(word), i}, Value: row.Value})
			}
			return entries, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := notes.Set(ctx, []byte("n1"), []byte("Buy bread")); err != nil {
		log.Fatal(err)
	}
	place, err := db.StableHead(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := words.WaitFresh(ctx, place); err != nil { // or IndexScanOptions.Fresh
		log.Fatal(err)
	}
	item, err := words.Get(ctx, "bread")
	fmt.Printf("%s %v %q %v\n", item.Key, item.Entry, item.Value, err)
	// Output:
	// n1 ("bread", 1) "Buy bread" <nil>
}
