package builtin

import "net/netip"

// guard knows which addresses are on the public Internet. It is immutable.
type guard struct {
	// special4 are the IPv4 networks that are not the public Internet (RFC 6890 and
	// its registry), and one public address that clouds use for metadata.
	special4 []netip.Prefix
	// global6 is all of IPv6 that is assigned as global unicast; what lies outside
	// (loopback, unspecified, IPv4-compatible, link-local, site-local, unique-local,
	// multicast, local NAT64) is refused as a whole. special6 are exceptions in it.
	global6  netip.Prefix
	special6 []netip.Prefix
	// nat64 (RFC 6052) and sixToFour (RFC 3056) carry an IPv4 address.
	nat64, sixToFour netip.Prefix
}

func newGuard() *guard {
	return &guard{
		special4: prefixes(
			"0.0.0.0/8",        // this network
			"10.0.0.0/8",       // private
			"100.64.0.0/10",    // carrier-grade NAT, also metadata of some clouds
			"127.0.0.0/8",      // loopback
			"168.63.129.16/32", // metadata
			"169.254.0.0/16",   // link-local, also metadata
			"172.16.0.0/12",    // private
			"192.0.0.0/24",     // protocol assignments, also metadata
			"192.0.2.0/24",     // documentation
			"192.88.99.0/24",   // 6to4 relays
			"192.168.0.0/16",   // private
			"198.18.0.0/15",    // benchmarks
			"198.51.100.0/24",  // documentation
			"203.0.113.0/24",   // documentation
			"224.0.0.0/4",      // multicast
			"240.0.0.0/4",      // reserved, broadcast
		),
		global6: netip.MustParsePrefix("2000::/3"),
		special6: prefixes(
			"2001::/23",     // protocol assignments: Teredo, benchmarks, ORCHID
			"2001:db8::/32", // documentation
			"3fff::/20",     // documentation
		),
		nat64:     netip.MustParsePrefix("64:ff9b::/96"),
		sixToFour: netip.MustParsePrefix("2002::/16"),
	}
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether a is an address of the public Internet. An IPv6
// address that carries an IPv4 address is as public as that one.
func (g *guard) public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if a.Is4() {
		return !within(g.special4, a)
	}
	b := a.As16()
	switch {
	case g.nat64.Contains(a):
		return g.public(netip.AddrFrom4([4]byte(b[12:16])))
	case g.sixToFour.Contains(a):
		return g.public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return g.global6.Contains(a) && !within(g.special6, a)
}

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
