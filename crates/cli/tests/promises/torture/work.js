const fs = require("fs"), zlib = require("zlib"), crypto = require("crypto");
const names = fs.readdirSync("/usr/include");
const packed = zlib.deflateSync(Buffer.alloc(9999));
console.log(names.length > 0, crypto.createHash("md5").update(packed).digest("hex"));
setTimeout(() => fs.readFile("/etc/passwd", (error, bytes) => console.log(error, bytes.length > 0)), 5);
