// Package decisions numbers decisions and hands them to the record: each one that acted, and a
// hold when it begins, changes, or has gone on for a while.
package decisions
