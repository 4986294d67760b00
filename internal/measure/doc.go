// Package measure answers what the pods use now of a signal, and what a pod's end should free, with the
// time of each figure. It decides nothing: what is missing or too old is decide's to judge.
package measure
