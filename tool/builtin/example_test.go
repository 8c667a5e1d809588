package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/rouse-run/rouse/tool"
	"github.com/rouse-run/rouse/tool/builtin"
)

// An agent may work in one directory and nowhere else.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	tools, err := builtin.New(builtin.Config{Root: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tools.Close()

	run := func(t tool.Tool, args string) {
		res, err := t.Call(context.Background(), &tool.Call{
			Name: t.Spec().Name, Args: json.RawMessage(args), Attempt: 1, Progress: func(string) {},
		})
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		fmt.Println(string(res.Output))
	}
	run(tools.WriteFile(), `{"path":"notes/todo.txt","content":"water the plants\n"}`)
	run(tools.Search(), `{"pattern":"plants?"}`)
	run(tools.ReadFile(), `{"path":"../../etc/passwd"}`)
	run(tools.Fetch(), `{"url":"http://169.254.169.254/latest/meta-data/"}`)
	// Output:
	// created notes/todo.txt, 17 bytes written
	// notes/todo.txt:1: water the plants
	// [matches: 1; files searched: 1]
	//
	// error: read_file: ../../etc/passwd leads out of the root directory
	// error: fetch: 169.254.169.254 is not on the public Internet; private, local and special addresses are refused
}

// A model reads a stored large result piece by piece.
func ExampleReadResult() {
	stored := blobs{"result-1": "a very long result"}
	res, err := builtin.ReadResult(stored).Call(context.Background(), &tool.Call{
		Args: json.RawMessage(`{"ref":"result-1","offset":2,"limit":9}`), Progress: func(string) {},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(res.Output))
	// Output:
	// very long
	// [bytes 2 to 11 of 18; read on with offset 11]
}
