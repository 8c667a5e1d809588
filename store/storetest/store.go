package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rouse-run/rouse"
	"github.com/rouse-run/rouse/store"
)

func storeChecks() []check[store.Store] {
	return []check[store.Store]{
		{"run", "a run's row is what its commits said, CodeNotFound when there is none", checkRun},
		{"list runs", "ListRuns returns what the filter selects, newest first", checkListRuns},
		{"run pages", "pages over a cursor hold every run once, also when runs begin meanwhile", checkRunPages},
		{"thread", "a thread's row has the title of its first run, CodeNotFound when there is none", checkThread},
		{"list threads", "ListThreads returns the thread whose latest run began last first", checkListThreads},
		{"thread pages", "pages over a cursor hold every thread once", checkThreadPages},
		{"bad listings", "a negative limit and a foreign cursor are CodeInvalid", checkBadListings},
		{"empty names", "an empty id is refused with CodeInvalid", checkEmptyNames},
		{"refused", "a commit that is refused leaves the rows alone", checkRefusedRows},
		{"blobs", "a blob's reference is sha256: and the hash of its content; the bytes come back", checkBlobs},
		{"no blob", "Blob returns CodeNotFound when there are none", checkNoBlob},
		{"same blob at once", "storing the same bytes again changes nothing, also at the same time", checkSameBlob},
	}
}

func getRun(t *testing.T, s store.Store, id string) store.RunInfo {
	t.Helper()
	r, err := s.Run(t.Context(), id)
	if err != nil {
		t.Fatalf("run %q: %v", id, err)
	}
	return r
}

// timeless returns the row without its times, which it checks.
func timeless(t *testing.T, r store.RunInfo) store.RunInfo {
	t.Helper()
	checkTimes(t, r.ID, r.Created, r.Updated)
	r.Created, r.Updated = time.Time{}, time.Time{}
	return r
}

func checkTimes(t *testing.T, id string, created, updated time.Time) {
	t.Helper()
	for _, at := range []time.Time{created, updated} {
		if at.IsZero() || at != rouse.Stamp(at) {
			t.Errorf("%q has the time %s, want one in UTC and whole milliseconds", id, at.Format(time.RFC3339Nano))
		}
	}
	if updated.Before(created) {
		t.Errorf("%q was updated at %s, before it was created at %s", id, updated, created)
	}
}

func checkRun(t *testing.T, s store.Store) {
	newPen(t, s, "t", "z").commit(rouse.StatusCompleted, facts(4)...)
	p := newPen(t, s, "t", "a")
	want := store.RunInfo{
		ID: "a", Thread: "t", Agent: "agent of a", Title: "title of a", Status: rouse.StatusRunning,
		Revision: 1, Epoch: 1, Owner: "owner-a",
	}
	for _, step := range []struct {
		name string
		do   func()
		want func()
	}{
		{"created without events", func() { p.commit(rouse.StatusRunning) }, func() {}},
		{"first events", func() { p.commit(rouse.StatusRunning, facts(2)...) }, func() { want.FirstSeq, want.LastSeq = 5, 6 }},
		{"waiting", func() { p.commit(rouse.StatusWaiting, facts(1)...) }, func() { want.LastSeq, want.Status = 7, rouse.StatusWaiting }},
		{"claimed", func() { p.claim("owner-b").commit(rouse.StatusRunning) }, func() {
			want.Epoch, want.Owner, want.Status = 2, "owner-b", rouse.StatusRunning
		}},
		{"described again", func() {
			p.b.Agent, p.b.Title, p.b.Owner = "x", "y", "z" // stored on creation, and on a claim, only
			p.commit(rouse.StatusRunning, facts(1)...)
		}, func() { want.LastSeq = 8 }},
		{"finished", func() { p.commit(rouse.StatusFailed, facts(1)...) }, func() { want.LastSeq, want.Status = 9, rouse.StatusFailed }},
	} {
		step.do()
		step.want()
		want.Revision = p.b.Revision
		if got := timeless(t, getRun(t, s, "a")); got != want {
			t.Fatalf("%s:\ngot  %+v\nwant %+v", step.name, got, want)
		}
	}
	_, err := s.Run(t.Context(), "nobody")
	wantCode(t, err, rouse.CodeNotFound)
}

func listRuns(t *testing.T, s store.Store, f store.RunFilter) (string, string) {
	t.Helper()
	runs, next, err := s.ListRuns(t.Context(), f)
	if err != nil {
		t.Fatalf("list %+v: %v", f, err)
	}
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
		if one := getRun(t, s, r.ID); one != r {
			t.Errorf("listed %+v\nalone  %+v", r, one)
		}
	}
	return strings.Join(ids, " "), next
}

func checkListRuns(t *testing.T, s store.Store) {
	newPen(t, s, "t", "a").commit(rouse.StatusCompleted, facts(1)...)
	newPen(t, s, "u", "b").commit(rouse.StatusFailed, facts(1)...)
	newPen(t, s, "t", "c").commit(rouse.StatusRunning, facts(1)...).commit(rouse.StatusWaiting)
	newPen(t, s, "u", "d").commit(rouse.StatusRunning, facts(1)...)
	for _, c := range []struct {
		f    store.RunFilter
		want string
	}{
		{store.RunFilter{}, "d c b a"},
		{store.RunFilter{Thread: "t"}, "c a"},
		{store.RunFilter{Thread: "nobody"}, ""},
		{store.RunFilter{Status: []rouse.Status{rouse.StatusRunning}}, "d"},
		{store.RunFilter{Status: []rouse.Status{rouse.StatusWaiting, rouse.StatusCompleted}}, "c a"},
		{store.RunFilter{Status: []rouse.Status{rouse.StatusCanceled}}, ""},
		{store.RunFilter{Thread: "u", Status: []rouse.Status{rouse.StatusFailed, rouse.StatusWaiting}}, "b"},
		{store.RunFilter{Limit: 4}, "d c b a"},
	} {
		if got, next := listRuns(t, s, c.f); got != c.want || next != "" {
			t.Errorf("%+v lists %q and the cursor %q, want %q and none", c.f, got, next, c.want)
		}
	}
}

func checkRunPages(t *testing.T, s store.Store) {
	for i := range 55 {
		newPen(t, s, fmt.Sprint("t", i), fmt.Sprintf("r%02d", i)).commit(rouse.StatusRunning)
	}
	if got, next := listRuns(t, s, store.RunFilter{}); len(strings.Fields(got)) != 50 || next == "" {
		t.Errorf("without a limit a page has %d runs and the cursor %q, want 50 and one", len(strings.Fields(got)), next)
	}
	var all []string
	f := store.RunFilter{Limit: 10}
	for page := 0; ; page++ {
		got, next := listRuns(t, s, f)
		all = append(all, strings.Fields(got)...)
		newPen(t, s, fmt.Sprint("late", page), fmt.Sprint("late", page)).commit(rouse.StatusRunning)
		if f.Cursor = next; next == "" || page > 10 {
			break
		}
	}
	if len(all) != 55 || all[0] != "r54" || all[54] != "r00" || !slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the pages hold %d runs: %v", len(all), all)
	}
}

func checkThread(t *testing.T, s store.Store) {
	newPen(t, s, "t", "a").commit(rouse.StatusCompleted, facts(2)...)
	newPen(t, s, "t", "b").commit(rouse.StatusRunning, facts(1)...)
	got, err := s.Thread(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	checkTimes(t, got.ID, got.Created, got.Updated)
	got.Created, got.Updated = time.Time{}, time.Time{}
	if want := (store.ThreadInfo{ID: "t", Title: "title of a", Runs: 2, LastSeq: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	newPen(t, s, "silent", "c").commit(rouse.StatusRunning)
	got, err = s.Thread(t.Context(), "silent")
	if err != nil || got.Runs != 1 || got.LastSeq != 0 {
		t.Errorf("a thread without events is %+v, %v", got, err)
	}
	_, err = s.Thread(t.Context(), "nobody")
	wantCode(t, err, rouse.CodeNotFound)
}

func listThreads(t *testing.T, s store.Store, limit int, cursor string) (string, string) {
	t.Helper()
	threads, next, err := s.ListThreads(t.Context(), limit, cursor)
	if err != nil {
		t.Fatalf("list threads: %v", err)
	}
	ids := make([]string, len(threads))
	for i, th := range threads {
		ids[i] = th.ID
		if one, err := s.Thread(t.Context(), th.ID); err != nil || one != th {
			t.Errorf("listed %+v\nalone  %+v, %v", th, one, err)
		}
	}
	return strings.Join(ids, " "), next
}

func checkListThreads(t *testing.T, s store.Store) {
	if got, next := listThreads(t, s, 0, ""); got != "" || next != "" {
		t.Errorf("an empty store lists %q and the cursor %q", got, next)
	}
	pens := make(map[string]*pen)
	for _, id := range []string{"t", "u", "v"} {
		pens[id] = newPen(t, s, id, "run of "+id).commit(rouse.StatusRunning)
	}
	if got, _ := listThreads(t, s, 0, ""); got != "v u t" {
		t.Errorf("got %q, want v u t", got)
	}
	pens["t"].commit(rouse.StatusCompleted, facts(1)...)
	if got, _ := listThreads(t, s, 0, ""); got != "v u t" {
		t.Errorf("after a commit of a run that had begun: got %q, want v u t", got)
	}
	newPen(t, s, "t", "second run of t").commit(rouse.StatusRunning)
	if got, next := listThreads(t, s, 3, ""); got != "t v u" || next != "" {
		t.Errorf("after the beginning of a run in t: %q and the cursor %q, want t v u and none", got, next)
	}
	if got, next := listThreads(t, s, 2, ""); got != "t v" || next == "" {
		t.Errorf("a page of two: %q and the cursor %q, want t v and one", got, next)
	}
}

func checkThreadPages(t *testing.T, s store.Store) {
	seen := make(map[string]bool)
	for i := range 53 {
		newPen(t, s, fmt.Sprint("t", i), fmt.Sprint("r", i)).commit(rouse.StatusRunning)
	}
	cursor, pages := "", 0
	for {
		got, next := listThreads(t, s, 10, cursor)
		for _, id := range strings.Fields(got) {
			if seen[id] {
				t.Errorf("%s is on two pages", id)
			}
			seen[id] = true
		}
		pages++
		if cursor = next; next == "" || pages > 10 {
			break
		}
	}
	if len(seen) != 53 || pages != 6 {
		t.Errorf("%d threads on %d pages, want 53 on 6", len(seen), pages)
	}
	if got, next := listThreads(t, s, 0, ""); len(strings.Fields(got)) != 50 || next == "" {
		t.Errorf("without a limit a page has %d threads and the cursor %q, want 50 and one", len(strings.Fields(got)), next)
	}
}

func checkBadListings(t *testing.T, s store.Store) {
	_, _, err := s.ListRuns(t.Context(), store.RunFilter{Limit: -1})
	wantCode(t, err, rouse.CodeInvalid)
	_, _, err = s.ListRuns(t.Context(), store.RunFilter{Cursor: "not from here"})
	wantCode(t, err, rouse.CodeInvalid)
	_, _, err = s.ListThreads(t.Context(), -1, "")
	wantCode(t, err, rouse.CodeInvalid)
	_, _, err = s.ListThreads(t.Context(), 0, "not from here")
	wantCode(t, err, rouse.CodeInvalid)
}

func checkEmptyNames(t *testing.T, s store.Store) {
	_, err := s.Run(t.Context(), "")
	wantCode(t, err, rouse.CodeInvalid)
	_, err = s.Thread(t.Context(), "")
	wantCode(t, err, rouse.CodeInvalid)
	_, err = s.Blob(t.Context(), "")
	wantCode(t, err, rouse.CodeInvalid)
}

func checkRefusedRows(t *testing.T, s store.Store) {
	p := newPen(t, s, "t", "a").commit(rouse.StatusRunning, facts(1)...)
	run, err := s.Thread(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	row := getRun(t, s, "a")
	newPen(t, s, "t", "b").refused(rouse.StatusRunning, rouse.CodeBusy)
	bad := *p
	bad.b.Revision = 7
	bad.claim("thief").refused(rouse.StatusFailed, rouse.CodeConflict)
	bad = *p
	bad.b.Epoch = 7
	bad.claim("thief").refused(rouse.StatusFailed, rouse.CodeFenced)
	if got := getRun(t, s, "a"); got != row {
		t.Errorf("the run changed from %+v to %+v", row, got)
	}
	if got, err := s.Thread(t.Context(), "t"); err != nil || got != run {
		t.Errorf("the thread changed from %+v to %+v, %v", run, got, err)
	}
	_, err = s.Run(t.Context(), "b")
	wantCode(t, err, rouse.CodeNotFound)
	if got, _ := listThreads(t, s, 0, ""); got != "t" {
		t.Errorf("the threads are %q, want t", got)
	}
}

func checkBlobs(t *testing.T, s store.Store) {
	for _, data := range [][]byte{{}, nil, {0}, []byte("text"), bytes.Repeat([]byte{0xff, 0}, 2<<20)} {
		sum := sha256.Sum256(data)
		want := "sha256:" + hex.EncodeToString(sum[:])
		for range 2 {
			if ref, err := s.PutBlob(t.Context(), data); err != nil || ref != want {
				t.Fatalf("PutBlob of %d bytes: %q, %v, want %q", len(data), ref, err, want)
			}
		}
		if got, err := s.Blob(t.Context(), want); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("Blob: %d bytes, %v, want %d", len(got), err, len(data))
		}
	}
}

func checkNoBlob(t *testing.T, s store.Store) {
	_, err := s.Blob(t.Context(), "sha256:"+strings.Repeat("0", 64))
	wantCode(t, err, rouse.CodeNotFound)
	for _, bad := range []string{"md5:0", "sha256:", "sha256:zz", strings.Repeat("0", 64)} {
		_, err := s.Blob(t.Context(), bad)
		wantCode(t, err, rouse.CodeNotFound, rouse.CodeInvalid)
	}
	_, err = s.PutBlob(canceled(t), []byte("x"))
	if err != nil {
		wantCode(t, err, rouse.CodeCanceled, rouse.CodeTimeout)
	}
}

func checkSameBlob(t *testing.T, s store.Store) {
	data := bytes.Repeat([]byte("blob"), 10_000)
	if n := race(t, 16, func(int) error {
		_, err := s.PutBlob(t.Context(), data)
		return err
	}); n != 16 {
		t.Fatalf("%d of 16 were stored", n)
	}
	sum := sha256.Sum256(data)
	if got, err := s.Blob(t.Context(), "sha256:"+hex.EncodeToString(sum[:])); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}
