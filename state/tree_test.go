package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTree compares the treap with a map, old roots included.
func TestTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var root *node
		model := map[string]int64{}
		for i, name := range rapid.SliceOf(rapid.StringN(0, 3, -1)).Draw(t, "names") {
			old, before := root, maps.Clone(model)
			root = root.put(name, entry{revision: int64(i)})
			model[name] = int64(i)
			compare(t, old, before)
		}
		compare(t, root, model)
	})
}

func compare(t *rapid.T, root *node, model map[string]int64) {
	t.Helper()
	var names []string
	root.each(func(name string, e entry) {
		names = append(names, name)
		if e.revision != model[name] || root.get(name).revision != model[name] {
			t.Fatalf("%q: got %d, want %d", name, e.revision, model[name])
		}
	})
	if want := slices.Sorted(maps.Keys(model)); !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	if e := root.get("longer than any drawn"); e.revision != 0 || e.value != nil {
		t.Fatal("a name that is not there was found")
	}
}

// TestTreeCopiesThePathOnly: what a change does not touch is shared with the
// snapshot before, and the path stays short even for names in order.
func TestTreeCopiesThePathOnly(t *testing.T) {
	t.Parallel()
	const size = 256
	name := func(i int) string { return fmt.Sprintf("key%04d", i) }
	for _, order := range []func(int) int{
		func(i int) int { return i },
		func(i int) int { return size - 1 - i },
	} {
		var root *node
		for i := range size {
			root = root.put(name(order(i)), entry{})
		}
		before := nodes(root)
		copied := 0
		for i := range size {
			for n := range nodes(root.put(name(i), entry{revision: 1})) {
				if !before[n] {
					copied++
				}
			}
		}
		if mean := copied / size; mean > 24 {
			t.Errorf("a change of one of %d values copies %d nodes in the mean", size, mean)
		}
	}
}

func nodes(root *node) map[*node]bool {
	out := map[*node]bool{}
	var add func(*node)
	add = func(n *node) {
		if n != nil {
			out[n] = true
			add(n.left)
			add(n.right)
		}
	}
	add(root)
	return out
}
