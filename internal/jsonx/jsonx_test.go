package jsonx_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/rouse-run/rouse/internal/jsonx"
)

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c\n\r\t\b\f\x00\x1f\x7f", "é漢字🙂", "\u2028\u2029", "\xff\xc3", "<&>", "\xe6\xbc"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := jsonx.AppendString(nil, s)
		if string(got) != string(jsonx.AppendString(nil, []byte(s))) {
			t.Fatal("string and bytes differ")
		}
		if !utf8.Valid(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		// the oracle is encoding/json: it replaces invalid bytes in the same way
		ref, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var refBack string
		if err := json.Unmarshal(ref, &refBack); err != nil {
			t.Fatal(err)
		}
		if back != refBack {
			t.Fatalf("%q became %q, encoding/json says %q", s, back, refBack)
		}
	})
}

func TestObject(t *testing.T) {
	o := jsonx.Open([]byte("x"))
	o.String("a", "1\n")
	o.String("none", "")
	o.Int("n", -7)
	o.Bool("t", true)
	o.Bool("f", false)
	o.Raw("r", []byte(`[1.10]`))
	if got, want := string(o.Close()), `x{"a":"1\n","n":-7,"t":true,"r":[1.10]}`; got != want {
		t.Fatalf("got %s want %s", got, want)
	}
}
