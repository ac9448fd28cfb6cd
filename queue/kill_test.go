package queue

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cleavekv/cleave"
)

// envChild tells a process of this test that it is the one that is killed, and where
// its store is.
const envChild = "CLEAVE_QUEUE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envChild); dir != "" {
		workForEver(dir)
	}
	os.Exit(m.Run())
}

func openQueues(dir string) (*cleave.DB, *cleave.Keyspace, error) {
	db, err := cleave.Open(dir, cleave.Options{})
	if err != nil {
		return nil, nil, err
	}
	ks, err := db.OpenKeyspace(ctx, cleave.KeyspaceOptions{Name: "queues", Kind: cleave.Range})
	return db, ks, err
}

// workForEver publishes and consumes, and says what was acknowledged to it.
func workForEver(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	say := func(what string, body []byte) { _, _ = os.Stdout.WriteString(what + " " + string(body) + "\n") }
	db, ks, err := openQueues(dir)
	fail(err)
	q, err := Open(ctx, db, ks, "q", Options{Lease: time.Second, MaxDeliveries: 1000})
	fail(err)
	for w := range 2 {
		go func() {
			for i := 0; ; i++ {
				m := Message{Key: fmt.Appendf(nil, "k%d", w), Body: fmt.Appendf(nil, "%d-%d-%d", os.Getpid(), w, i)}
				fail(q.Publish(ctx, m))
				say("published", m.Body)
			}
		}()
	}
	go func() {
		for i := 0; ; i++ {
			fail(q.Resize(ctx, []int{2, 8, 3}[i%3]))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	for {
		got, err := q.Receive(ctx, 3)
		fail(err)
		for _, d := range got {
			say("received", d.Body)
			fail(q.Ack(ctx, d))
			say("acked", d.Body)
		}
	}
}

// What was published comes, and what was acknowledged does not come again, when the
// process is killed.
func TestMessagesSurviveAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	published, received, acked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for range 2 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), envChild+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		stop := time.AfterFunc(time.Minute, func() { _ = child.Process.Kill() })
		lines, n := bufio.NewScanner(out), 0
		for lines.Scan() {
			what, body, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "published":
				published[body] = true
			case "received":
				if received[body] = true; acked[body] {
					t.Errorf("%s comes again", body)
				}
			case "acked":
				acked[body] = true
				if n++; n == 40 {
					must(t, child.Process.Kill())
				}
			default:
				t.Error(lines.Text())
			}
		}
		if _ = child.Wait(); n < 40 {
			t.Fatal("the child ended by itself: the test shows nothing")
		}
		stop.Stop()
	}
	db, ks, err := openQueues(dir)
	must(t, err)
	defer db.Close()
	later := func() time.Time { return time.Now().Add(time.Hour) } // when all leases have ended
	q := open(t, db, ks, "q", Options{MaxDeliveries: 1000, Now: later})
	for {
		got, err := q.TryReceive(ctx, 100)
		must(t, err)
		if len(got) == 0 {
			break
		}
		for _, d := range got {
			if acked[string(d.Body)] {
				t.Errorf("%s comes again", d.Body)
			}
			received[string(d.Body)] = true
		}
		must(t, q.Ack(ctx, got...))
	}
	for body := range published {
		if !received[body] {
			t.Errorf("%s is lost", body)
		}
	}
	must(t, q.Close())
}
