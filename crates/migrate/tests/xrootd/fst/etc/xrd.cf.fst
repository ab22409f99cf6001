# A disk server of a system with a name space of its own.
xrootd.fslib libXrdEosFst.so
xrootd.async off nosf
xrd.network keepalive
xrootd.seclib libXrdSec.so
sec.protocol unix
sec.protocol sss -c /etc/disk.keytab -s /etc/disk.keytab
sec.protbind * only unix sss
all.export / nolock
all.trace none
all.manager localhost 2131
xrd.port 1095
ofs.persist off
ofs.osslib libEosFstOss.so
ofs.tpc pgm /usr/bin/xrdcp
fstofs.broker root://localhost:1097//eos/
fstofs.autoboot true
