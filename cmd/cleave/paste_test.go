package main

import (
	"encoding/json"
	"fmt"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cleavekv/cleave/advisor"
	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/reshard/balancer"
	"github.com/cleavekv/cleave/internal/reshard/classify"
	"github.com/cleavekv/cleave/key"
	"github.com/cleavekv/cleave/partition"
)

// What is proposed for keys that grow is a command that a shell takes as it stands, and a keyspace with that layout is
// there afterwards.
func TestCommands_ProposedForAMovingEdge_CanBePasted(t *testing.T) {
	var proposed []string
	for _, k := range []partition.Keyspace{
		{ID: 1, Name: "orders", Kind: partition.Range},
		{ID: 1, Name: "app/orders", Kind: partition.Range, Layout: "order_id:int"},
		{ID: 1, Name: "it's-$HOME;", Kind: partition.Range, Layout: "ts:time | id:int"},
		{ID: 1, Name: strings.Repeat("n", partition.MaxNameBytes), Kind: partition.Range, Layout: "(region, hour(ts)) | ts, id"},
	} {
		command := regexp.MustCompile("`(.*)`").FindStringSubmatch(balancer.RemedyOf(&classify.Finding{Class: classify.MovingEdge}, &k, 4))
		if command == nil {
			t.Fatalf("no command for %s", k.Layout)
		}
		proposed = append(proposed, command[1])
	}
	code, stdout, stderr := runCommand("advise", writeOrders(t, "orders.csv", 20_000, ""), "--layout", "range", "--shards", "8", "-o", "json")
	var r advisor.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != exitOK || err != nil {
		t.Fatalf("exit %d, %s, %v", code, stderr, err)
	}
	for _, c := range r.Candidates {
		proposed = append(proposed, c.Create)
	}
	if !slices.ContainsFunc(proposed, func(c string) bool { return strings.Contains(c, "hash(id), id:int") }) {
		t.Errorf("no hash is proposed for ids that grow: %q", proposed)
	}

	data := filepath.Join(t.TempDir(), "data")
	p := startServer(t, "--data", data)
	client := p.operatorClient(t, data)
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(path)+string(filepath.ListSeparator)+"/bin:/usr/bin")
	t.Setenv("CLEAVE_ADDR", p.httpAddr)
	t.Setenv("CLEAVE_TOKEN", client.Token)
	layout := regexp.MustCompile(`--layout '(.*)'$`)
	for i, command := range proposed {
		text := layout.FindStringSubmatch(command)
		if text == nil {
			t.Fatalf("no layout in %s", command)
		}
		command = strings.Replace(command, " NAME ", fmt.Sprintf(" advised%d ", i), 1)
		if out, err := osexec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
			continue
		}
		want, err := key.ParseLayout(text[1])
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		spaces, err := client.Keyspaces(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(spaces, func(k api.Keyspace) bool { return k.Layout == want.String() }) {
			t.Errorf("after %s there is no keyspace with that layout", command)
		}
	}
}
