package diagnosis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Findings returns the findings for in, most severe first.
func Findings(in Inputs) []Finding {
	findings := slices.Concat(
		contradictionFindings(in),
		clusterFindings(in),
		appFindings(in),
		servingFindings(in),
		machineFindings(in),
		settingFindings(in.Differences),
		serviceConflictFindings(in),
		unstartedServiceFindings(in),
		policyFindings(in),
	)
	sortFindings(findings)
	return findings
}

// sortFindings sorts findings by severity, then by the order of their codes.
func sortFindings(findings []Finding) {
	order := map[Code]int{}
	for i, code := range slices.Concat(Codes(), DoctorCodes()) {
		order[code] = i
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(order[a.Code], order[b.Code]))
	})
}

// maxNamed is the maximum number of nodes that a sentence names.
const maxNamed = 8

// joinNames joins the names of nodes: "a", "a and b", "a, b and c".
func joinNames(names []string) string {
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], ", ") + " and " + strconv.Itoa(len(names)-maxNamed) + " more"
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// pluralize returns "1 shard" or "3 shards".
func pluralize(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(count) + " " + noun + "s"
}

// isOrAre returns the verb for count subjects.
func isOrAre(count int) string { return inflect(count, "is", "are") }

// hasOrHave returns the verb for count subjects.
func hasOrHave(count int) string { return inflect(count, "has", "have") }

// itOrThem returns the pronoun for count objects.
func itOrThem(count int) string { return inflect(count, "it", "them") }

// itsOrTheir returns the possessive pronoun for count owners.
func itsOrTheir(count int) string { return inflect(count, "its", "their") }

// inflect returns the form of a word for count subjects: singular for one, otherwise plural.
func inflect(count int, singular, plural string) string {
	if count == 1 {
		return singular
	}
	return plural
}

// nodeIDs returns the ids of the nodes for which keep returns true.
func (in Inputs) nodeIDs(keep func(Node) bool) (ids []string) {
	for _, node := range in.Nodes {
		if keep(node) {
			ids = append(ids, node.ID)
		}
	}
	return ids
}

// voterIDs returns the ids of all voters, of those that respond, and of those that are missing.
func (in Inputs) voterIDs() (voters, present, missing []string) {
	voters = in.nodeIDs(func(node Node) bool { return node.Voter })
	present = in.nodeIDs(func(node Node) bool { return node.Voter && node.Alive })
	missing = in.nodeIDs(func(node Node) bool { return node.Voter && !node.Alive })
	return voters, present, missing
}

// quorum returns the number of voters in a quorum.
func quorum(voters int) int { return voters/2 + 1 }
