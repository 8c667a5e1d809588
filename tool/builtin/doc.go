// Package builtin holds the tools that most agents want: reading, listing,
// searching and writing files below one directory, fetching public web pages,
// running shell commands, and reading a stored large result piece by piece.
//
// # Files
//
// Every path is confined to Config.Root. A path that is absolute, that leads
// upwards out of the root, or that goes through a symbolic link to somewhere
// outside is refused by the same system calls that open the file (os.Root), so a
// link that is swapped during a call does not help. Devices, pipes and sockets
// are refused before they can block. Errors show paths relative to the root.
// What is mounted or hard-linked below the root counts as inside.
//
// # Network
//
// The fetch tool resolves a name, checks every address, and connects to a
// checked address only. Loopback, private, link-local and other special
// addresses are refused, also inside the IPv6 forms that carry an IPv4 address,
// and also after a redirect. See FetchConfig.
//
// # Shell
//
// The shell tool is not a sandbox. A command runs with all rights of the process
// that hosts the agent: it can read and write outside the root, open connections
// and see the machine. What the tool does promise is a small environment without
// the host's secrets, a time limit, bounded output, and that no process stays
// behind: the command gets a session of its own, and whatever is left in it when
// the call ends is killed. On Linux this includes processes that have started a
// session of their own; only one that also clears its environment, closes what it
// has inherited and outlives its parent is not found, and neither is what another
// service starts at the request of a command. On other systems it is the
// process group. Put a permission rule in front of the tool, or run the host in a
// container, which ends everything with itself.
package builtin
