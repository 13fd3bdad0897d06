"""What the run directories of a home say, remembered in one file, so that finished runs are not read again and again.

    from plat.store.index.runs import descriptions, states
    states(home, ids)        where these runs stand (id -> RunState), as `run_state` of each would say
    descriptions(home, ids)  what they are: name, axes and the files that ask for them (id -> Description)
    from plat.store.index.configs import nearest
    nearest(home, run)       the run whose config differs in the fewest values

The file `<home>/index.db` is a cache: the run directories remain the truth, it may be deleted at any time, and every
function here gives the same answer without it, only later.

Promised: no state is ever wrong because of the index. What it remembers of a file (result.json, meta.json, config.yaml)
is used only while the file's stamp (inode, size, times of change of content and inode) is the one that was taken before
the file was read, so that an edited, replaced, removed or copied file is read again. Of a run that has no result.json
nothing is remembered but its name: its state is read from its directory each time. What is asked of the file system is
therefore one `stat` for each finished run, and nothing at all is opened.

stamp       the fingerprint of a file
database    the SQLite file: opened, read, saved, and made anew when it is damaged
remembered  one kind of file of many runs: from the index where its stamp is the same, else read anew
runs        states and descriptions
configs     configs as sets of numbers, and the nearest run
"""
