// Package incident gives a shortage its identity. A threshold's own state is reset by each reading
// at the threshold, by the hard threshold that follows the soft one, by an edit of the
// configuration and by a restart; an incident continues across all of them. It groups and names
// what happens in one shortage of one resource. It neither evicts nor forbids.
package incident
