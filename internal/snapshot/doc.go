// Package snapshot holds what `evictd rank` saw of one node, so that the ranking can
// be computed again elsewhere: for a bug report, or to try another configuration.
//
// It records inputs and never results. The order comes from the same code as a
// running agent's:
//
//	seen, err := snapshot.Load("node.json")
//	ranking, unread, err := seen.Rank(ctx, pressure.MemoryAvailable)
//
// A snapshot is one document, JSON or YAML, whose apiVersion and kind say what it
// is; docs/snapshot.md describes every field. [NodeSnapshot.Encode] writes JSON.
//
// Reading is strict: a field that nobody knows, a figure that no node has, a pod
// that is there twice or a file that was cut off is an error of one sentence, which
// says where and what to do. Unknown is a state and never 0: what was not read is
// missing in the document, and what must be there is asked for.
//
// Of pods it holds what [nodepods.Trim] leaves, when it is written and when it is
// read. Labels, names and namespaces are in it; environments, commands, images and
// annotations other than those that the ranking reads are not.
package snapshot
