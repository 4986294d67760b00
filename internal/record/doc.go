// Package record answers: what did evictd do, and why?
//
// It turns the agent's reports into four outputs for four readers: one log line for each decision
// (what happened last night), Events on the victims (the pod's owner), metrics (alerts and
// dashboards) and the last decisions for /debug/status (what happens now). All four are made from
// the same values, in the same words.
//
// It decides nothing and sends nothing but Events, and those through a queue: no method waits for
// the API server. An unknown reading is missing from the metrics, never 0. Pods are named in logs
// and Events, not in metric labels.
package record
