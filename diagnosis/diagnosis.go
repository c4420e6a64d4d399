package diagnosis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Of returns what is the matter, the gravest first.
func Of(in Inputs) []Finding {
	all := slices.Concat(cluster(in), apps(in), serving(in), machine(in), configs(in.Differences), policy(in))
	sorted(all)
	return all
}

// sorted brings findings into the order in which they are told.
func sorted(all []Finding) {
	order := map[Code]int{}
	for i, c := range slices.Concat(Codes(), DoctorCodes()) {
		order[c] = i
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(order[a.Code], order[b.Code]))
	})
}

// maxNamed is how many nodes a sentence names.
const maxNamed = 8

// list names nodes: "a", "a and b", "a, b and c".
func list(names []string) string {
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], ", ") + " and " + strconv.Itoa(len(names)-maxNamed) + " more"
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// count returns "1 shard" or "3 shards".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// are is the verb for so many.
func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// have is the verb for so many.
func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// pick returns the ids of the nodes that keep says yes to.
func (in Inputs) pick(keep func(Node) bool) (ids []string) {
	for _, n := range in.Nodes {
		if keep(n) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// voters returns those that vote, and which of them are here and missing.
func (in Inputs) voters() (all, here, missing []string) {
	all = in.pick(func(n Node) bool { return n.Voter })
	here = in.pick(func(n Node) bool { return n.Voter && n.Here })
	missing = in.pick(func(n Node) bool { return n.Voter && !n.Here })
	return all, here, missing
}

// quorum is how many of so many voters it takes.
func quorum(voters int) int { return voters/2 + 1 }
